"""Computes Spark SQL expressions over Arrow batches, with Spark's own meaning, without Spark.

``reading`` turns the text of an expression into a typed tree (``tree``), or says what of it is not
certified; the families (``arithmetic``, ``comparing``, ...) say how each operator and function is
typed and computed. What is *certified* gives what Spark gives in its ANSI mode, errors included: a
test asks Spark itself, over edge values. All else is Spark's to compute.

Pure: columns in, columns out. It knows no topology, and loads sqlglot only to read a text.
"""
