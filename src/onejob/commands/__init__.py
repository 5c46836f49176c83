"""Every store operation as a value: a name, its parameters, and how its rows become an answer.

``replicas`` who is alive · ``runs`` the life of a run · ``schedules`` ticks · ``ledger`` what has
taken effect · ``views`` what people look at.
"""
