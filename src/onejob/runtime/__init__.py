"""The loops of a replica: keep the lease, claim and execute, settle, tick, sweep.

Written once, async, over a :class:`Clock`, a source of chance and an async store, so that the
simulator runs these very loops on virtual time.
"""
