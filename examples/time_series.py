"""Latencies by URL, in windows of a minute, an hour, a day and thirty days."""

import atoll
from atoll import Map, Struct, agg

module = atoll.Module("time-series")
latencies = module.depot(
    "latencies", "url string, render_millis long, ts_millis long", partition_by="url"
)

mb = module.microbatch("timeseries")
stats = Struct(cardinality=int, total=int, last_millis=int, min=int, max=int)
window_stats = mb.pstate("window_stats", Map(str, Map(str, Map(int, stats))))

(
    mb.source(latencies)
    .with_columns(minute="ts_millis div 60000")
    .with_columns(
        windows="map('m', minute, 'h', minute div 60, 'd', minute div 1440, 'td', minute div 43200)"
    )
    .explode("windows", "granularity", "bucket")
    .aggregate(
        window_stats["url"]["granularity"]["bucket"],
        cardinality=agg.count(),
        total=agg.sum("render_millis"),
        last_millis=agg.last("render_millis"),
        min=agg.min("render_millis"),
        max=agg.max("render_millis"),
    )
)
