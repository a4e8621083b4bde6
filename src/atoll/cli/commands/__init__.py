"""The subcommands, one per file; each file's function has the command's name.

Those of one subject stand together in a folder; ``atoll.cli.app`` lists them all.
"""
