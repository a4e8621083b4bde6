"""Each step as a function that begins a path: ``path.key("ann")``."""

from __future__ import annotations

from atoll.path.path import Path

_START = Path()

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
