"""What the body of a function says, in languages other than Python: guards, and what it is for.

A grammar has found where the function begins and ends, and taken its comments out; within it, the
words of locks and claims are much the same in Java, Kotlin, Ruby, Go, C# and PHP. A claim counts
only where a condition or a block uses its answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onejob.scan.facts import Guard
from onejob.scan.finding import Verdict

CHARACTERS_MAX = 40_000
_QUEUE = re.compile(
    r"(queue|consumer|listener|subscriber|dequeue\w*)(_loop)?$|queue_\w*(hosted_)?service$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Sign:
    """Words that show a guard, and what the guard is worth."""

    name: str
    words: re.Pattern[str]
    gives: Verdict
    why: str
    tested: bool = False
    """Counts only where the line, or the one after, asks about the answer."""


def _words(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_LAPSES = "lapses when the job outlives it, and a failover can forget it"
_LATER = "is free again when the run has ended: a replica that fires later runs again"

SIGNS: tuple[Sign, ...] = (
    Sign(
        "FOR UPDATE SKIP LOCKED",
        _words(r"skip[\s_]*locked"),
        Verdict.GUARDED,
        "takes rows that nobody else holds",
    ),
    Sign(
        "executeWithLock",
        re.compile(r"\bexecuteWithLock\s*\("),
        Verdict.GUARDED,
        "runs the work under a lock of ShedLock",
    ),
    Sign(
        "transaction advisory lock",
        _words(r"pg_(try_)?advisory_xact_lock"),
        Verdict.NO_OVERLAP,
        "ends with its transaction: a replica that fires later runs again",
    ),
    Sign(
        "advisory lock",
        _words(r"pg_(try_)?advisory_lock|\bGET_LOCK\s*\(|with_advisory_lock|sp_getapplock"),
        Verdict.WEAK_GUARD,
        "ends with its connection; " + _LATER,
    ),
    Sign(
        "conditional UPDATE",
        _words(
            r"\bupdate\b[^;\"`']{0,200}\bset\b[^;\"`]{0,300}\bwhere\b[\s\S]{0,400}?"
            r"(rows_?affected|affected_?rows|row_?count|rowcount|executeUpdate|==\s*0|!=\s*1|< 1)"
        ),
        Verdict.GUARDED,
        "claims the row by its old state and looks at the count",
    ),
    Sign(
        "Redis lock",
        _words(
            r"\bsetIfAbsent\s*\(|\bSetNX\s*\(|\.setnx\b|redlock|redsync|redislock|\bnx:\s*true"
            r"|[\"'](?:NX|nx)[\"']|with_lock_manager|getLock\([^)]*\)\s*[.;]?[^;]{0,60}tryLock"
            r"|RedissonClient|LockTakeAsync|StringSetAsync\([^)]*When\.NotExists|Cache::lock\("
        ),
        Verdict.WEAK_GUARD,
        _LAPSES,
    ),
    Sign(
        "lock registry",
        re.compile(r"[lL]ockRegistry\b[^;]{0,80}\b(?:obtain|executeLocked)\b"),
        Verdict.WEAK_GUARD,
        _LATER,
    ),
    Sign(
        "leader check",
        _words(
            r"\b(?:if|unless|return|when)\b[^\n]{0,60}\b\w*(?:is_?(?:the_?)?leader|is_?master"
            r"|is_?primary_?(?:node|instance)|has_?leadership|am_?i_?leader|my_?partition|partition_?mine)\w*"
        ),
        Verdict.WEAK_GUARD,
        "was true when it was asked; nothing fences a leader that has been replaced",
    ),
    Sign(
        "host check",
        _words(
            r"\b(?:if|unless|return)\b[^\n]{0,80}(?:gethostname|hostname\s*(?:\(\))?\s*(?:==|!=|eq)"
            r"|NODE_APP_INSTANCE|CF_INSTANCE_INDEX|INSTANCE_INDEX|DYNO|POD_ORDINAL)"
        ),
        Verdict.HOST_ONLY,
        "chooses a process by its host or number, which two may have during a rollout",
    ),
    Sign(
        "file lock",
        _words(
            r"\bflock\s*\(|\.flock\b|FileLock\b|\bPidFile\b|LOCK_EX\b|\block_?file\b|tryLockFile"
        ),
        Verdict.HOST_ONLY,
        "is a file of this host",
    ),
    Sign(
        "lock of this process",
        re.compile(
            r"\A.{0,120}?\bsynchronized\b|\.synchronize\b|\b\w*(?:mu|mutex|lock)\.(?:TryLock|tryLock)\(\)"
            r"|AtomicBoolean|compareAndSet\(|\batomic\.CompareAndSwap|\.CompareAndSwap\(|\.try_lock\b"
            r"|Interlocked\.(?:Exchange|CompareExchange)|Monitor\.TryEnter|\.WaitAsync\(0\)|\.Wait\(0\)"
            r"|\A.{0,120}?\block\s*\(\s*_?\w+\s*\)\s*\{",
            re.DOTALL,
        ),
        Verdict.HOST_ONLY,
        "is of this process only",
    ),
    Sign(
        "lock",
        re.compile(
            r"\b\w*(?:acquire|tryAcquire|try_acquire|obtain|tryObtain|takeLock|take_lock|tryLock"
            r"|try_lock|TryLock|with_lock|withLock|WithLock|lockAndRun|runLocked|AcquireLock"
            r"|AcquireAsync|getLock|get_lock)\w*\s*[({]"
        ),
        Verdict.WEAK_GUARD,
        "is named a lock; whether it is shared, lapses and fences is for you to see",
        tested=True,
    ),
)


def guards_in(body: str, first_line: int, *, path: str = "") -> tuple[Guard, ...]:
    """Return the guards that a body shows, the strongest signs first."""
    text = body[:CHARACTERS_MAX]
    found = []
    for sign in SIGNS:
        match = sign.words.search(text)
        if match and (not sign.tested or _tested(text, match)):
            line = first_line + text.count("\n", 0, match.start())
            found.append(Guard(sign.name, sign.gives, line, sign.why, path))
    named = [guard for guard in found if guard.name != "lock"]
    return tuple(named or found)


def _tested(text: str, match: re.Match[str]) -> bool:
    """Decide whether an answer is asked about: in a condition, as a block, or right after."""
    begins = text.rfind("\n", 0, match.start()) + 1
    ends = text.find("\n", match.end())
    after = text.find("\n", ends + 1) if ends >= 0 else -1
    line = text[begins : ends if ends >= 0 else len(text)]
    near = text[begins : after if after >= 0 else len(text)]
    return (
        re.search(
            r"\b(?:if|unless|return|when|guard|while|try|using|await)\b|\?:|[{]\s*$|\bdo\b|->|=>",
            line,
        )
        is not None
        or re.search(r"\b(?:if|unless)\b", near) is not None
    )


_OWN = re.compile(
    r"heart_?beat|keep_?alive|watch_?dog|metric|liveness|readiness|health|telemetry|gauge|statsd"
    r"|prometheus|profil|memory_?(usage|stat)|flush_?(logs?|stats|buffer|metrics)|runtime_?stats"
    r"|(report|collect|log|print|emit|record|update)_?(runtime_?)?(stats|statistics|usage)"
    r"|(empty|rebuild|fill)_?cache|with_cache|(api_?key|session)_?usage_?tracker"
    r"|lock_?(repository|registry|renew)\w*_?renew|flush_\w*queue"
    r"|(refresh|reload|clean(up)?|evict|expire|purge|invalidate|prune|sweep|warm)_?(local_?|memory_?)?"
    r"(cache|sessions?_?cache)|cache_?(refresh|clean|evict|sweep|expir|reload)|janitor|evict"
    r"|(re)?load_?(config|settings?|propert)|config_?(reload|watch|refresh)|(re)?new_?lease|lease_?renew"
    r"|reap_?(zombie|child|process|idle|conn)|idle_?(timeout|check|conn)|(send_?)?ping|pong|reconnect"
    r"|connection_?(monitor|check|pool)|pool_?(monitor|clean)|sd_?notify|rate_?limit|limiter"
    r"|refresh_?(token(?!s?_?(clean|exp|service|repo|check|purge|task|job))|jwks|keys?|cert|credential|dns|endpoints?|schedul)|(token|cert|credential|jwks)"
    r"_?(refresh|reload|rotat|renew)|service_?discovery|file_?watch|watch_?(file|config|dir)|tail_?log"
    r"|rotate_?logs?|log_?rotat|read_?loop|write_?(loop|pump)|read_?pump|debounce|throttl|sampler?"
    r"|(async_?)?queue_?writ|(batch|async)_?(writ|flush|logg)|init_?logg|logger"
    r"|gossip|raft|election|discover|peers?_?(manage|refresh|exchange)|schedule_scheduler",
    re.IGNORECASE,
)
_SUPERVISES = re.compile(
    r"(re)?start_?(dead_?)?(workers?|process|child)|run_workers|supervis|respawn|reap_",
    re.IGNORECASE,
)
_SCREEN = re.compile(
    r"spinner|progress|animat|render|redraw|repaint|frame|blink|cursor|countdown|typing|screen|tui|tips?(?:_|$)",
    re.IGNORECASE,
)
_RETRY = re.compile(
    r"retry|retri|back_?off|wait_?(for|until|till)|poll_?until|await|until_|attempt|debounce"
    r"|eventually|timeout|sleep|connect_?(to|with|db|database)|dial|ping_?until",
    re.IGNORECASE,
)


def plain(name: str) -> str:
    """Return a name in lower case with underscores."""
    return _CAMEL.sub("_", name).lower()


def for_itself(*names: str) -> str:
    """Return the name that shows that work serves its own process; "" where none does."""
    return next((name for name in names if name and _OWN.search(plain(name))), "")


def supervises(*names: str) -> bool:
    """Decide whether work keeps the processes of its own program alive: no job of the product."""
    return any(_SUPERVISES.search(plain(name)) for name in names if name)


def for_a_person(*names: str) -> bool:
    """Decide whether a loop draws something for somebody who looks at it."""
    return any(_SCREEN.search(plain(name)) for name in names if name)


def for_waiting(*names: str) -> bool:
    """Decide whether a loop waits for something, or tries again: no job."""
    return any(_RETRY.search(plain(name)) for name in names if name)


def answers(name: str, body: str) -> bool:
    """Decide whether a loop belongs to a function that looks something up and returns it."""
    looks_up = re.match(
        r"(?:get|find|read|open|create|resolve|load|ensure|require)(?![a-z])", plain(name)
    )
    return looks_up is not None and re.search(r"\breturn\b", body) is not None


def takes_from_a_queue(*names: str) -> bool:
    """Decide by the name of a class or a function whether its loop takes work from a queue."""
    return any(_QUEUE.search(plain(name)) for name in names if name)


def calls_in(body: str) -> tuple[str, ...]:
    """Return the names that a body calls, in order, without repetition."""
    found = re.findall(
        r"([A-Za-z_]\w*[!?]?)\s*\(|(?m:^\s*([a-z_]\w*[!?]?)\s*(?:$|;))|\bthis::(\w+)",
        body[:8_000],
    )
    names = (first or second or handed for first, second, handed in found)
    return tuple(dict.fromkeys(name for name in names if name not in _KEYWORDS))[:40]


_KEYWORDS_WORDS = """
    if for while switch catch return when synchronized try new else do end begin func function fun
    using lock foreach match rescue ensure unless case super this println print log puts
"""
_KEYWORDS = frozenset(_KEYWORDS_WORDS.split())


def without_comments(text: str, marks: str = "//") -> str:
    """Take comments out and keep the lines; texts that hold a comment's mark stay whole."""
    hash_too = r"|#[^\n]*" if "#" in marks else ""
    slash_too = r"|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)" if "//" in marks else ""
    pattern = rf"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`[^`]*`){slash_too}{hash_too}"
    return re.sub(pattern, lambda m: m[1] if m[1] else "\n" * m[0].count("\n"), text)
