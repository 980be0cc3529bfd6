"""Configuration spaces: knobs, constraints, and configs. They use no IR and no schedule."""

from pegbox.space.annotate import AnnotateKnob
from pegbox.space.config import Config
from pegbox.space.digits import Digits
from pegbox.space.entities import AnnotateEntity, Entity, OtherEntity, ReorderEntity, SplitEntity
from pegbox.space.knob import Condition, Knob, ListedKnob
from pegbox.space.listed_space import ListedSpace
from pegbox.space.option import OptionKnob
from pegbox.space.random_walk import revive
from pegbox.space.range import RangeKnob
from pegbox.space.reorder import ReorderKnob
from pegbox.space.space import ConfigSpace
from pegbox.space.split import SplitKnob, divisors, inferred_outer, policy_splits, powers_of_two
from pegbox.space.variation import nearest

__all__ = [
    "AnnotateEntity",
    "AnnotateKnob",
    "Condition",
    "Config",
    "ConfigSpace",
    "Digits",
    "Entity",
    "Knob",
    "ListedKnob",
    "ListedSpace",
    "OptionKnob",
    "OtherEntity",
    "RangeKnob",
    "ReorderEntity",
    "ReorderKnob",
    "SplitEntity",
    "SplitKnob",
    "divisors",
    "inferred_outer",
    "nearest",
    "policy_splits",
    "powers_of_two",
    "revive",
]
