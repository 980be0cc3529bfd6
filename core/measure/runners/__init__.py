"""Runners, which turn compiled candidates into results, and checked calls of plugins' runners."""
