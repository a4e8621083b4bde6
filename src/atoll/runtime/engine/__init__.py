"""How a definition runs: as an ordinary module, whose microbatches pass events through the actors.

**The sketch.** A runtime is a module with one depot, ``intake``, and one topology::

    intake -> pack -> copies (process, key = copy) -> events log, effects (append_to)
                                                   -> calculator (process, global state)

- *Everything that happens to a runtime is a record of the intake*, of one depot partition, so in
  one order: events (``trigger``, ``shunt``), what an effect gave (``answer``), ``start`` and
  ``stop``, and offers of snapshots (``offer``). A microbatch is a function of records and state.
- ``pack`` finds the copy of each record and puts the records of one copy into few rows, still as
  Arrow columns. A record for all copies goes into a row of each. That is the only exchange.
- ``copies`` is called once per such row, with the state of that copy. It takes the events of the
  row *actor by actor* in the order of the links: a stateless actor sees all of them at once, an
  instance of a stateful one its own, in order. What an actor emits is merged by the event that it
  came of, so the outcome is that of one event after the other. Where an actor collects from a
  sibling it is one event after the other indeed.
- State is loaded when an instance is first met in a call and written back once at its end.
- Only a runtime with an event log, effects or snapshots has a second job, for what leaves the
  copies.

So one copy is what runs in parallel: a copy has a vnode of its own
(:func:`~atoll.runtime.engine.intake.vnode_of_copy`), and copies are spread evenly over the
parallel units.
"""
