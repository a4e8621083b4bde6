"""Paths: where to go in a PState, step by step. Immutable, declared without reading anything.

    from atoll import path

    path.key("ann")                              # one value, None when there is none
    path.key("ann").must("books").all()          # every element below, nothing when there is none
    path.key("ann").sorted_range("a", "c")       # a part of a sorted map, as one dict
    path.map_vals().filter(">", 10)              # many values
    path.key("ann").top(3)                        # the first three by rank, of a ranked map
    path.key("ann").key("n").term(lambda n: (n or 0) + 1)    # a path that writes ends in a term

Each step takes what the steps before it navigated to, and navigates from each of these to none,
one or several places. Whether a path fits a PState's schema is checked before anything is read.
"""

from atoll.path.path import Path as Path
from atoll.path.steps import COMPARISONS as COMPARISONS
from atoll.path.steps import VOID as VOID
from atoll.path.steps import Navigator as Navigator
from atoll.path.steps import Step as Step
from atoll.path.wire import from_json as from_json

_START = Path()

# Each step as a function that begins a path.
key = _START.key
must = _START.must
field = _START.field
all = _START.all  # noqa: A001  # reads as path.all(...)
keys = _START.keys
map_vals = _START.map_vals
map_key = _START.map_key
sub_map = _START.sub_map
set_elem = _START.set_elem
void_set_elem = _START.void_set_elem
subset = _START.subset
first = _START.first
last = _START.last
size = _START.size
sorted_range = _START.sorted_range
sorted_range_from = _START.sorted_range_from
sorted_range_to = _START.sorted_range_to
sorted_range_from_start = _START.sorted_range_from_start
sorted_range_to_end = _START.sorted_range_to_end
top = _START.top
ranked = _START.ranked
rank_of = _START.rank_of
around = _START.around
quantile = _START.quantile
ranked_before = _START.ranked_before
ranked_after = _START.ranked_after
nth = _START.nth
index = _START.index
indexed_vals = _START.indexed_vals
sublist = _START.sublist
sublist_dynamic = _START.sublist_dynamic
filtered_list = _START.filtered_list
before_elem = _START.before_elem
after_elem = _START.after_elem
before_index = _START.before_index
beginning = _START.beginning
end = _START.end
filter = _START.filter  # noqa: A001  # reads as path.filter(...)
filter_selected = _START.filter_selected
filter_not_selected = _START.filter_not_selected
null_to = _START.null_to
null_to_list = _START.null_to_list
null_to_set = _START.null_to_set
view = _START.view
transformed = _START.transformed
stay = _START.stay
stop = _START.stop
if_path = _START.if_path
multi_path = _START.multi_path
subselect = _START.subselect
collect = _START.collect
collect_one = _START.collect_one
put_collected = _START.put_collected
dispense_collected = _START.dispense_collected
is_collected = _START.is_collected
term = _START.term
set = _START.set  # noqa: A001  # reads as path.set(...)
delete = _START.delete
custom = _START.custom
