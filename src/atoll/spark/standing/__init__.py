"""Tasks of Spark that stay: each takes an attempt's work over a socket, one piece after the other.

Every Spark job costs tens of milliseconds before its first task runs, however little it has to do.
So tasks that have begun stay (:class:`~atoll.spark.standing.tasks.StandingTasks`): each holds a
*post* on a host (:mod:`atoll.spark.standing.post`), which is one Spark job of one task, and is
asked for what an attempt needs done there (:mod:`atoll.spark.standing.jobs`). Spark places them,
starts them anew when they die and kills them; what they run is what tasks of an ordinary job run.
"""
