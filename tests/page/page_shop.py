"""The module that the page's tests look at: a depot, steps in Python, nested state, a query."""

from atoll import Map, Module, Set, Struct, agg, path


def build(name="shop"):
    """Orders by customer; one of a negative amount fails the microbatch."""
    module = Module(name)
    orders = module.depot(
        "orders",
        "customer string NOT NULL, item string, cents long, gift boolean",
        partition_by="customer",
    )
    audit = module.depot("audit", "customer string, cents long")
    options = {
        "topology.microbatch.retry.max.attempts": 2,
        "pstate.history.seconds": 3_600,  # however slow the machine, the first one is there
    }
    sales = module.microbatch("sales", vnode_count=16, options=options)
    by_customer = sales.pstate("by_customer", Map(str, Map(str, int)))
    items = sales.pstate("items", Map(str, Struct(count=int, customers=Set(str))))
    total = sales.pstate("total", int, initial=0)

    def check(row):
        if row.cents is not None and row.cents < 0:
            raise ValueError("below nothing")
        return row.asdict()

    def note(row, items):
        items[row.item]["count"] = (items[row.item]["count"] or 0) + 1
        items[row.item]["customers"].add(row.customer)

    stream = sales.source(orders).map(
        check, emits="customer string, item string, cents long, gift boolean"
    )
    stream.aggregate(by_customer["customer"]["item"], agg.sum("cents"))
    stream.process(note, key="item", states=[items])
    stream.aggregate(total, agg.sum("cents"))
    stream.where("cents > 1000").select("customer", "cents").append_to(audit)
    spent = module.query("spent", customer=str)
    paid = spent.select_from(
        by_customer, lambda row: path.key(row.customer).map_vals(), emits="cents long"
    )
    paid.agg(total=agg.sum("cents")).returns("total")
    return module


def fill(app, rounds=4, customers=30):
    """A few microbatches of orders."""
    done = 0
    for at in range(rounds):
        rows = [
            {
                "customer": f"c{number:03}",
                "item": ("tea", "salt", "bread")[(number + at) % 3],
                "cents": 100 * number,
                "gift": number % 2 == 0,
            }
            for number in range(customers)
        ]
        done += app.depot("orders").append(rows).count
        app.topology("sales").wait_processed(done, timeout_seconds=60)
