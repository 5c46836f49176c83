"""The servers that tests talk to: found, or started and ended by us.

A test asks for a fixture (`postgres_url`); which server answers is decided here, once a test run.
Add a store's server in a module of its own, as a `Server`, and name it in `SERVERS`.
"""

from __future__ import annotations

from servers.kafka import KafkaServer
from servers.mariadb import MariadbServer
from servers.nats import NatsServer
from servers.postgres import PostgresServer
from servers.rabbitmq import RabbitmqServer
from servers.redis import RedisServer
from servers.server import Absent, Running, Server

POSTGRES = PostgresServer()
REDIS = RedisServer()
MARIADB = MariadbServer()
RABBITMQ = RabbitmqServer()
NATS = NatsServer()
KAFKA = KafkaServer()
SERVERS: tuple[Server, ...] = (POSTGRES, REDIS, MARIADB, RABBITMQ, NATS, KAFKA)

__all__ = [
    "KAFKA",
    "MARIADB",
    "NATS",
    "POSTGRES",
    "RABBITMQ",
    "REDIS",
    "SERVERS",
    "Absent",
    "PostgresServer",
    "Running",
    "Server",
]
