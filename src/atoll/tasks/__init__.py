"""What runs inside a task: reading ranges, Python steps, packing rows for the exchange, actors.

Free of Spark: the same code runs under any executor that can hand out tasks and move bytes.
"""
