"""Plays attacks: a proxy with its normal user beside it, an attack in a process of its own, and the readings.

Ends all that it started, by process id.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.node import CHECKOUT
from tests.lab.hostile import asking, judging
from tests.lab.hostile.asking import Longest
from tests.lab.hostile.attack import Attack, Found, Size
from tests.lab.hostile.judging import Outcome
from tests.lab.hostile.normal import ADMIN, PRODUCE
from tests.lab.hostile.place import Place, Proxy, Scene

MARGIN_S, START_S = 30, 30
WARM_S = 0.5
AGAIN = (PRODUCE, ADMIN)
"""What the normal user has to have done again before an attack is judged."""
_TIME = threading.Event()


class Stand:
    """A proxy under attack."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self._target = proxy.target()
        self._samples = proxy.directory / "samples"
        self._normal: subprocess.Popen[bytes] | None = None
        self._number = 0

    def start(self) -> None:
        """The normal user at work."""
        self._samples.touch()
        program = [sys.executable, "-m", "tests.lab.hostile.normal", str(self._target), str(self._samples)]
        with (self.proxy.directory / "normal.log").open("ab") as log:
            self._normal = subprocess.Popen(program, cwd=CHECKOUT, stdout=log, stderr=log)
        self._wait_for_samples(now_ms(), START_S)
        _TIME.wait(WARM_S)

    def end(self) -> None:
        if self._normal is not None:
            self._normal.terminate()
            self._normal.wait()

    def play(self, attack: Attack, size: Size) -> Outcome:
        """One attack from its start until the normal user is served again."""
        pids, controller = asking.measured(self.proxy.slices), self.proxy.place.stack.controller
        for pid in pids:
            judging.forget_peak(pid)
        self._slices(pids, controller.pid)
        before, rss = self._metrics(size.patience_s), {pid: judging.rss_bytes(pid) for pid in pids}
        began_ms = now_ms()
        found = self._attack(attack, size)
        self._wait_for_samples(now_ms(), size.patience_s)
        seconds = (now_ms() - began_ms) / 1000
        if (held_ms := self.proxy.upstream_held_ms(began_ms)) is not None:
            found.facts["broker in memory held ms"] = held_ms
        longest, at_controller = self._slices(pids, controller.pid)
        peaks = {pid: judging.rss_bytes(pid, "VmHWM") for pid in pids}
        # The process that has grown most is the one to look at.
        pid = max(pids, key=lambda each: peaks[each] - rss[each])
        outcome = Outcome(
            name=attack.name,
            seconds=seconds,
            proxy=longest,
            controller=at_controller,
            rss_before_bytes=rss[pid],
            rss_peak_bytes=peaks[pid],
            rss_bound_bytes=judging.rss_bound_bytes(rss[pid], found),
            served=judging.served(self._since(began_ms)),
            facts=found.facts,
        )
        outcome.faults += self._deaths(pids)
        judging.judge(outcome, found, before, self._metrics(size.patience_s))
        return outcome

    def _attack(self, attack: Attack, size: Size) -> Found:
        self._number += 1
        program = [sys.executable, "-m", "tests.lab.hostile.attack", attack.name, str(self._target)]
        with (self.proxy.directory / f"{self._number}-{attack.name}.log").open("wb") as log:
            playing = subprocess.Popen(
                [*program, "long" if size.long else "short"], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=log
            )
        try:
            told, _ = playing.communicate(timeout=size.limit_s + MARGIN_S)
        except subprocess.TimeoutExpired:
            playing.kill()
            told, _ = playing.communicate()
        if playing.returncode or not told:
            said = Path(log.name).read_text(encoding="utf-8", errors="replace")[-600:]
            return Found(faults=[f"the attack itself failed with {playing.returncode}: {said}"])
        return Found(**json.loads(told))

    def _slices(self, pids: list[int], controller: int) -> tuple[Longest, Longest]:
        """Of the proxy's processes the one with the longest, and of the controller."""
        found = [Longest()]
        for pid in pids:
            with suppress(OSError):  # A worker that has ended: see _deaths.
                found.append(asking.take(self.proxy.slices, pid))
        return max(found, key=lambda each: each.ms), asking.take(self.proxy.place.slices, controller)

    def _metrics(self, patience_s: int) -> dict[str, float] | None:
        """None: there is no answer, and a dead process gives none."""
        ends_ms = now_ms() + patience_s * 1000
        while now_ms() < ends_ms and self.proxy.process.returncode is None:
            with suppress(OSError, HTTPException):
                return self.proxy.metrics()
        return None

    def _deaths(self, pids: list[int]) -> Iterator[str]:
        if self.proxy.process.returncode is not None:
            yield f"the proxy ended with {self.proxy.process.returncode}"
        if self.proxy.scene.workers > 1:
            dead = [pid for pid in pids if not judging.rss_bytes(pid)]
            if dead:
                yield f"{len(dead)} workers were killed or ended"

    def _wait_for_samples(self, since_ms: int, patience_s: int) -> None:
        """Until what was begun since then was answered, or as long as that."""
        while now_ms() < since_ms + patience_s * 1000:
            kinds = {row["kind"] for row in self._since(since_ms) if row["at_ms"] >= since_ms}
            if kinds.issuperset(AGAIN):
                return
            _TIME.wait(0.1)

    def _since(self, at_ms: int) -> list[dict[str, Any]]:
        """What the normal user asked since then, or had under way."""
        rows = [json.loads(line) for line in self._samples.read_text(encoding="utf-8").split("\n")[:-1]]
        return [row for row in rows if row["at_ms"] + row["ms"] >= at_ms]


class Stands:
    """A stand for each scene, kept until another is wanted or this one has failed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: Any = None
        self._stand: Stand | None = None

    def at(self, scene: Scene) -> Stand:
        """SetupError where the proxy of that scene does not come up."""
        if self._stand is not None and self._stand.proxy.scene != scene:
            self.close()
        if self._stand is None:
            context = a_stand(self._place, scene)
            self._stand = context.__enter__()
            self._open = context
        return self._stand

    def close(self) -> list[str]:
        """What was wrong with its end."""
        stand, self._stand = self._stand, None
        if stand is None:
            return []
        self._open.__exit__(None, None, None)
        code = stand.proxy.process.returncode
        return [] if code == 0 else [f"after SIGTERM the proxy of {stand.proxy.scene.name} ended with {code}"]


@contextmanager
def a_stand(place: Place, scene: Scene) -> Iterator[Stand]:
    with place.proxy(scene) as proxy:
        stand = Stand(proxy)
        try:
            stand.start()
            yield stand
        finally:
            stand.end()


def played(stands: Stands, attack: Attack, size: Size) -> Outcome:
    """One attack; a proxy that has failed is not used for the next one."""
    try:
        outcome = stands.at(attack.scene).play(attack, size)
    except (SetupError, OSError) as error:
        outcome = Outcome(attack.name, 0, Longest(), Longest(), 0, 0, 0, {}, {}, [f"no proxy: {error}"])
    if outcome.faults or size.long:
        outcome.faults += stands.close()
    return outcome


def confirmed(stands: Stands, attack: Attack, size: Size, tries: int = 3) -> Outcome:
    """As `played`; where nothing but slices were too long, the attack is played again.

    On a machine that is busy with other tests the same slice takes twice the CPU time now and then. What
    really is too long is so each time.
    """
    outcome = played(stands, attack, size)
    for _ in range(tries - 1):
        if not outcome.faults or not all(judging.HELD in fault for fault in outcome.faults):
            break
        outcome = played(stands, attack, size)
    return outcome
