"""Drives a headless Chromium over the DevTools protocol on a pipe: no driver, no sockets.

https://chromedevtools.github.io/devtools-protocol/ ; --remote-debugging-pipe reads commands
from descriptor 3 and writes to 4, each message ended by a NUL.
"""
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KEYS = {"Enter": ("\r", 13), "Tab": ("", 9), "Escape": ("", 27)}  # text and number
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAUNCH = """import os, sys
a, b = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
os.dup2(a, 3); os.dup2(b, 4)  # a may be 3 already, and is closed on exec then
os.set_inheritable(3, True); os.set_inheritable(4, True)
os.execvp(sys.argv[3], sys.argv[3:])"""


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """One browser with one page. `problems` lists uncaught errors, console errors and dialogs;
    `requests` every address that the page asked for."""

    def __init__(self, width=1280, height=620, flags=()):
        self.folder = tempfile.mkdtemp(prefix="eacgm-chromium-")
        child_in, self.to = os.pipe()
        self.source, child_out = os.pipe()
        command = [find(), "--headless=new", "--no-sandbox", "--no-first-run",
                   "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--window-size={width},{height}", f"--user-data-dir={self.folder}",
                   *flags, "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(child_in), str(child_out), *command],
            pass_fds=(child_in, child_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(child_in)
        os.close(child_out)
        self.buffer, self.number, self.session = b"", 0, None
        self.problems, self.requests, self.loads = [], [], 0
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # it is seen

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.to)
        os.close(self.source)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, limit):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.source], [], [], max(0, limit - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.source, 1 << 20)
            if not data:
                raise RuntimeError("the browser ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def event(self, message):
        kind, about = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
            self.problems.append("console: " + str(about["args"]))
        elif kind == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(about["entry"]["text"])
        elif kind == "Page.javascriptDialogOpening":
            self.problems.append("dialog: " + about["message"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif kind == "Page.loadEventFired":
            self.loads += 1

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        limit = time.monotonic() + 60
        while True:
            answer = self.message(limit)
            if answer.get("id") != self.number:
                self.event(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, path):
        """Opens a file and waits for its load event."""
        before = self.loads
        path = str(path)
        self.call("Page.navigate", url=path if "://" in path or path.startswith("about:")
                  else f"file://{path}")
        limit = time.monotonic() + 60
        while self.loads == before:
            self.event(self.message(limit))

    def run(self, script):
        """The value of a JavaScript expression, after what was asked for is drawn."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def mouse(self, kind, x, y):
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def key(self, key, modifiers=0):
        text, number = KEYS.get(key, (key if len(key) == 1 and not modifiers else "", 0))
        more = {"windowsVirtualKeyCode": number, "code": key} if number else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **more,
                  **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers, **more)

    def type(self, text):
        """In what has the focus, in place of what is selected there."""
        self.call("Input.insertText", text=text)

    def keep_downloads(self, folder):
        self.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def screenshot(self, path):
        import base64
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
