"""Vnode stores: the state of one vnode on one host, its files and its transactions."""
