"""The picture and the page of one search."""
