"""State that can be queried: vnode stores, external views, paths into them."""
