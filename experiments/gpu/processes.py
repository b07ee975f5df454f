"""Child processes with time limits, and what Catch2 writes about its test cases."""
import os
import pathlib
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree


class Child:
    """A process in a group of its own; what it prints goes to LOG.out and LOG.err."""
    started = []

    def __init__(self, command, log, environment, give_input=False):
        self.log = pathlib.Path(log)
        self.out_path, self.err_path = (self.log.with_name(self.log.name + end) for end in (".out", ".err"))
        self.start, self.code, self.seconds = time.monotonic(), None, None
        self.timed_out = False
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, env=environment,
                                            stdin=subprocess.PIPE if give_input else subprocess.DEVNULL,
                                            start_new_session=True)
        Child.started.append(self)

    def poll(self):
        if self.code is None and self.process.poll() is not None:
            self.code, self.seconds = self.process.returncode, time.monotonic() - self.start
        return self.code

    def wait(self, limit):
        wait_all([self], limit)
        return self

    def end(self):
        end_children([self])

    def tell(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def err(self):
        return self.err_path.read_text(errors="replace")

    def complaint(self):
        """Why it failed, in one line."""
        if self.timed_out:
            return f"over its time limit after {self.seconds or time.monotonic() - self.start:.0f} s"
        lines = [line.strip() for line in (self.err or self.out).replace("\r", "\n").splitlines() if line.strip()]
        return (lines[-1] if lines else f"exit code {self.code}")[:400]


def end_children(children):
    """Asks all to end, then makes them."""
    children = [child for child in children if child.poll() is None]
    for how, patience in ((signal.SIGTERM, 1.5), (signal.SIGKILL, 5)):
        for child in children:
            child.timed_out = True
            try:
                os.killpg(child.process.pid, how)
            except ProcessLookupError:
                pass
        until = time.monotonic() + patience
        while children and time.monotonic() < until:
            children = [child for child in children if child.poll() is None]
            time.sleep(0.02)


def wait_all(children, limit):
    """Until all have ended, or so many seconds have passed: then the others are ended."""
    end = time.monotonic() + limit
    while None in [child.poll() for child in children] and time.monotonic() < end:  # all are asked: they keep their times
        time.sleep(0.02)
    end_children(children)


def read_catch2(path):
    """What a (maybe unfinished) XML report says: [(name, passed, seconds, messages)] of each outermost section, or of a
    test case that has none; passed is None for one that did not end."""
    results, messages, info = [], [], []
    depth, name, in_case, sections_seen = 0, None, None, False
    parser = ElementTree.XMLPullParser(["start", "end"])
    try:
        parser.feed(pathlib.Path(path).read_bytes())
    except (OSError, ElementTree.ParseError):
        pass
    try:
        for event, node in parser.read_events():
            if event == "start":
                if node.tag == "TestCase":
                    in_case, sections_seen, messages, info = node.get("name"), False, [], []
                elif node.tag == "Section":
                    depth += 1
                    if depth == 1:
                        name, sections_seen, messages, info = node.get("name").strip(), True, [], []
                continue
            text = " ".join((node.text or "").split())
            if node.tag in ("Info", "Warning"):
                info.append(text)
            elif node.tag == "Expression":
                values = [" ".join((node.findtext(part) or "").split()) for part in ("Original", "Expanded")]
                if node.get("success") == "false":
                    messages.append("; ".join([*info, f"{values[0]} ({values[1]})"]))
                info = []
            elif node.tag in ("Exception", "Failure", "FatalErrorCondition"):
                messages.append("; ".join([*info, text]))
                info = []
            elif node.tag == "OverallResults" and depth == 1:
                seconds = float(node.get("durationInSeconds") or 0)
                results.append((name, int(node.get("failures")) == 0, seconds, messages))
                name = None
            elif node.tag == "Section":
                depth -= 1
            elif node.tag == "OverallResult":
                if not sections_seen:
                    results.append((in_case, node.get("success") == "true", float(node.get("durationInSeconds") or 0),
                                    messages))
                in_case = None
    except ElementTree.ParseError:
        pass
    if name is not None:
        results.append((name, None, 0, messages))
    elif in_case is not None and not sections_seen:
        results.append((in_case, None, 0, messages))
    return results
