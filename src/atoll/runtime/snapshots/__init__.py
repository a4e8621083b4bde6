"""The batch state calculator: one state for all instances of an actor, computed once of its log.

Coral's page names seven steps; each is a word of
:data:`~atoll.runtime.snapshots.counting.STEPS`, in the status, the log and the tests:

1. *runtime-creation*: the registry has a runtime with an actor whose state is of a batch mode.
2. *copy-registration*: when the runtime starts, and when its copies change, every copy tells the
   calculator its instances.
3. *counter-tracking*: copies tell how many events each instance has had, in all; the calculator
   adds up, or looks at the clock. When a window is full, that is a *crossing*. It has a number,
   and it fixes which events of the log count: of each instance those from one number to another.
4. *instance-selection*: one instance is chosen, in turn.
5. *snapshot-calculation*: on its behalf the state is computed of exactly those events.
6. *snapshot-offer*: the state, under the crossing's number, is a record of the intake for all
   copies.
7. *actor-update*: each copy keeps the offer, and every instance goes on from it, in that
   microbatch.

Steps 2 to 4 are decided inside a microbatch and committed with it (:mod:`counting`, pure; a global
PState). Step 5 is outside, a function of committed data (:mod:`computing`), and may be done again,
by anybody. Step 6 is an append that a depot stores once per number. So a process may be killed
anywhere: what is committed asks for the rest again, and a number is offered once.

Decided where Coral is silent:

- *Reaches*: a window of n events is full with the n-th. What is beyond it counts for the next one,
  so windows are of exactly n events, each in one of them. Events of one microbatch count in the
  order of copies and instances.
- *Overlap*: one calculation of an actor at a time. A crossing meanwhile waits; of several that
  wait, and of several in one microbatch, only the newest is computed, since each replaces the
  state. The others are counted as *superseded*.
- *Events during a calculation* belong to later windows; ``calc-local`` goes on from the old state
  until the offer, and from the offered one then. What it added in between is in the log, not in
  the state: Coral's drift, and it ends at the next snapshot that counts those events.
- *A selected instance that dies or hangs*: the next one is selected, after a time limit. The state
  is a function of the crossing's range, so it does not matter who computes.
- *A copy that joins later* is offered the last snapshot again, which the others have already.
- *Two processes at once*: both may compute; the offer's number is stored once, and a process that
  was taken over cannot append.
"""
