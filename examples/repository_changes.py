"""What happened in a repository: who changed which folders, what changes most, what changed last.

Records are changes of files: ``commit``, ``at`` (commit time in epoch milliseconds, not in
order), ``author`` (a number), ``path``, ``added`` and ``deleted`` (lines).
"""

import atoll
from atoll import List, Map, Struct, agg

module = atoll.Module("repository")
changes = module.depot(
    "changes",
    "commit string NOT NULL, at long NOT NULL, author long NOT NULL, path string NOT NULL, "
    "added long, deleted long",
    partition_by="path",
)

mb = module.microbatch("activity", options={"depot.microbatch.max.records": 500})
lines = mb.pstate("lines", Map(str, Map(int, Struct(added=int, deleted=int))))
by_month = mb.pstate("by_month", Map(str, Map(str, int)))
path_changes = mb.pstate("path_changes", Map(str, int))
most_changed = mb.pstate("most_changed", List(Struct(path=str, changes=int)))
latest = mb.pstate("latest", Map(str, Struct(commit=str, at=int)))

rows = mb.source(changes)
dated = rows.with_columns(
    folder="if(instr(path, '/') > 0, substring_index(path, '/', 1), '')",
    month="date_format(timestamp_millis(at), 'yyyy-MM')",
)
dated.aggregate(lines["folder"]["author"], added=agg.sum("added"), deleted=agg.sum("deleted"))
dated.aggregate(by_month["path"]["month"], agg.count())
rows.aggregate(latest["path"], commit=agg.last("commit", by="at"), at=agg.max("at"))
counted = rows.aggregate(path_changes["path"], agg.count())
counted.changes().aggregate(
    most_changed,
    agg.top_n(10, by="new", columns={"path": "path", "changes": "new"}, id="path"),
)
