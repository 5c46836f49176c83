"""Does a script run on a server or in somebody's browser? By its imports, path and words."""

from __future__ import annotations

import re

from onejob.scan.sources.javascript.script import Script

_BROWSER_PACKAGES = (
    "react",
    "react-dom",
    "vue",
    "svelte",
    "@angular/core",
    "@angular/common",
    "solid-js",
    "preact",
    "jquery",
    "next/router",
    "next/navigation",
    "next/link",
    "@vueuse/core",
    "vuex",
    "pinia",
    "redux",
    "react-redux",
    "ember",
    "backbone",
    "react-native",
    "expo",
    "electron",
    "d3",
    "three",
    "alpinejs",
    "lit",
    "@ionic/angular",
    "@tanstack/react-query",
    "@ember/component",
    "rxjs/webSocket",
    "svelte/store",
)
_SERVER_PACKAGES = (
    "express",
    "fastify",
    "koa",
    "hapi",
    "@hapi/hapi",
    "@nestjs/common",
    "fs",
    "node:fs",
    "fs/promises",
    "node:fs/promises",
    "http",
    "node:http",
    "net",
    "child_process",
    "node:child_process",
    "cluster",
    "node:cluster",
    "os",
    "node:os",
    "pg",
    "mysql2",
    "mysql",
    "redis",
    "ioredis",
    "mongoose",
    "mongodb",
    "knex",
    "sequelize",
    "typeorm",
    "@prisma/client",
    "drizzle-orm",
    "kafkajs",
    "amqplib",
    "nodemailer",
    "discord.js",
    "telegraf",
    "winston",
    "pino",
    "dotenv",
    "bull",
    "bullmq",
    "ws",
    "better-sqlite3",
    "worker_threads",
    "node:worker_threads",
    "timers/promises",
    "node:timers/promises",
    "aws-sdk",
    "express-session",
    "socket.io",
)
_BROWSER_PATH = re.compile(
    r"(^|/)(client|clients|frontend|front|front-end|web-app|webapp|website|site|ui|gui|www|browser"
    r"|components?|pages|hooks|views|widgets|layouts|composables|mobile|extension|dashboard-ui"
    r"|javascripts?|desktop|electron|renderer|playground|storybook|docs?-site|public|static|assets)/"
)
_SERVER_PATH = re.compile(
    r"(^|/)(server|servers|api|apis|backend|back-end|worker|workers|jobs?|crons?|tasks?|daemons?"
    r"|scheduler|schedulers|schedule|bot|bots|queue|queues|lambda|functions|bin|processors?)(/|\.)"
    r"|(^|/)[\w.-]*(cron|scheduler|worker|server|daemon|job)s?[\w.-]*\.[cm]?[jt]s$",
    re.I,
)
_DOM = re.compile(
    r"\b(window|document|localStorage|sessionStorage)\s*[.\[]|\bnavigator\.|addEventListener\(\s*['\"]"
    r"(click|load|DOMContentLoaded|scroll)|requestAnimationFrame|querySelector|getElementById|\$\(\s*['\"#]"
    r"|HTMLElement|customElements"
)
_NODE = re.compile(
    r"\bprocess\.(env|on|exit|argv|pid|memoryUsage|uptime)|\brequire\(|\bmodule\.exports|__dirname"
)


def on_server(script: Script) -> bool:
    """Decide; where nothing tells, it counts as a browser's, because a false alarm costs more."""
    path, text = script.path.lower(), script.file.text
    if path.endswith((".jsx", ".tsx")) or script.uses(*_BROWSER_PACKAGES):
        return False
    server = script.uses(*_SERVER_PACKAGES)
    if _DOM.search(text) and not server:
        return False
    if server:
        return True
    if _BROWSER_PATH.search(path) and not _SERVER_PATH.search(path):
        return False
    return bool(_SERVER_PATH.search(path) or _NODE.search(text))
