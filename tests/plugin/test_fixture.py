"""The fixture as a project finds it: by installing onejob, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = {
    "shop.py": """
        from onejob import App
        app = App("postgresql://127.0.0.1:1/nowhere")
        sent = []

        @app.job()
        def send(to: str) -> None:
            sent.append(to)

        @app.job()
        async def fetch(page: int) -> None:
            sent.append(page)
    """,
    "test_shop.py": """
        import asyncio, threading, unittest
        import onejob
        import pytest
        import shop

        @pytest.fixture(autouse=True)
        def _clean():
            shop.sent.clear()

        @pytest.mark.parametrize("to", ["ada", "bob", "cy", "di"])
        def test_sends(onejob, to):
            shop.send.enqueue(to)
            onejob.assert_enqueued(shop.send, count=1, args={"to": to})
            onejob.drain()
            assert shop.sent == [to]

        def test_the_name_finds_what_the_module_has(onejob):
            with pytest.raises(onejob.UsageError):
                onejob.current_run()

        def test_the_module_is_there_in_other_tests():
            assert onejob.App is type(shop.app)

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_async(onejob, anyio_backend):
            await shop.fetch.aenqueue(7)
            await onejob.adrain()
            assert shop.sent == [7]

        def test_no_thread_is_left():
            names = {thread.name for thread in threading.enumerate()}
            assert not any(name.startswith("onejob") for name in names), names

        class Case(unittest.TestCase):
            def setUp(self):
                from onejob.testing import inline
                self.jobs = self.enterContext(inline(shop.app))

            def test_case(self):
                shop.send.enqueue("eve")
                self.jobs.drain()
                self.assertEqual(shop.sent, ["eve"])
    """,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        lines = text.strip("\n").splitlines()
        (tmp_path / name).write_text("\n".join(line[8:] for line in lines) + "\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return tmp_path


def run(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_project_has_the_fixture_by_installing_onejob(project: Path, workers: str) -> None:
    assert "9 passed" in run(project, "-n", workers)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_plugin_imports_nothing_where_no_test_asks_for_it(project: Path) -> None:
    (project / "test_shop.py").write_text(
        "import sys\n"
        "def test_other():\n"
        "    ours = {name for name in sys.modules if name.partition('.')[0] == 'onejob'}\n"
        "    assert ours == {'onejob', 'onejob.testing', 'onejob.testing.plugin'}\n"
    )

    assert "1 passed" in run(project)
