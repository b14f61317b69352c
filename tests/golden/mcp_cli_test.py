#!/usr/bin/env python3
"""mcp_cli_test.py - `eacgm mcp` as an assistant speaks to it: the protocol, its tools over what an
agent answers (here one that is made up), and lines that are no messages."""
import contextlib
import http.server
import json
import subprocess
import threading

from cli import EACGM, eacgm, main, test

INCIDENT = {"id": 7, "what": "CPU contention by stress (4242)", "cause": "cpu", "evidence": ["e1", "e2"],
            "blame": [{"owner": "x", "ns": 1}], "cost_ns": 2e9, "advice": "stop it"}
ANSWERS = {("GET", "/api/v1/jobs"): (200, {"jobs": [{"pid": 1, "script": "train.py"}]}),
           ("GET", "/api/v1/incidents"): (200, {"incidents": [INCIDENT, {"id": 8}],
                                                "anomalies": [], "judges": True}),
           ("POST", "/freeze"): (202, "will be written\n")}


@contextlib.contextmanager
def agent(answers=None, tokens=None):
    """Its address, and what it was asked; tokens: a list, to which what was said goes."""
    asked = []
    tokens = [] if tokens is None else tokens

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            asked.append((self.command, self.path, self.headers["Host"]))
            tokens.append(self.headers["Authorization"])
            status, body = (answers or ANSWERS).get((self.command, self.path), (404, "Not Found\n"))
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        do_GET = do_POST = answer

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def talk(address, *messages):
    """What it answers, each a line."""
    lines = [m if isinstance(m, str) else json.dumps(m) for m in messages]
    done = subprocess.run([EACGM, "mcp", "--connect", address], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(address, tool, **arguments):
    answer, = talk(address, request("tools/call", name=tool, arguments=arguments))
    return answer["result"]


@test
def it_begins_as_the_protocol_says(_):
    for wanted, spoken in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"),
                           ("1999-01-01", "2025-06-18")):
        begun, pong, tools = talk(
            "127.0.0.1:1", request("initialize", "a", protocolVersion=wanted, capabilities={}),
            {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("ping", 2),
            request("tools/list", 3))
        assert begun["id"] == "a" and begun["result"]["protocolVersion"] == spoken, begun
        assert begun["result"]["capabilities"] == {"tools": {}}
        assert pong == {"jsonrpc": "2.0", "id": 2, "result": {}}
    tools = tools["result"]["tools"]
    assert [t["name"] for t in tools] == ["list_jobs", "incidents", "evidence", "freeze_trace"]
    assert [t["name"] for t in tools if not t["annotations"]["readOnlyHint"]] == ["freeze_trace"]
    assert all(t["inputSchema"]["type"] == "object" and t["description"] for t in tools)


@test
def its_tools_tell_what_the_agent_answers(_):
    with agent() as (address, asked):
        jobs = call(address, "list_jobs")
        assert not jobs["isError"] and jobs["structuredContent"]["jobs"][0]["script"] == "train.py"
        assert json.loads(jobs["content"][0]["text"]) == jobs["structuredContent"]
        told = call(address, "incidents")["structuredContent"]["incidents"]
        assert [i["id"] for i in told] == [7, 8] and "evidence" not in told[0], told
        assert call(address, "evidence", id=7)["structuredContent"] == INCIDENT
        frozen = call(address, "freeze_trace")
        assert not frozen["isError"] and frozen["content"][0]["text"] == "will be written"
    assert [(how, path) for how, path, _ in asked] == [
        ("GET", "/api/v1/jobs"), ("GET", "/api/v1/incidents"), ("GET", "/api/v1/incidents"),
        ("POST", "/freeze")]
    assert {host for _, _, host in asked} == {address}


@test
def all_pieces_of_an_incident_are_evidence(_):
    pieces = [{**INCIDENT, "told_ns": 5}, {**INCIDENT, "told_ns": 9, "cause": "gc"}]
    answers = {("GET", "/api/v1/incidents"): (200, {"incidents": [{"id": 8}, *pieces]})}
    with agent(answers) as (address, _asked):
        assert call(address, "evidence", id=7)["structuredContent"] == {"incidents": pieces}
        assert call(address, "evidence", id=8)["structuredContent"] == {"id": 8}


@test
def what_cannot_be_is_said_to_the_assistant(_):
    with agent() as (address, _asked):
        for arguments in ({"id": 9}, {"id": "7"}, {}):
            no = call(address, "evidence", **arguments)
            assert no["isError"] and "id" in no["content"][0]["text"], no
    no = call("127.0.0.1:1", "list_jobs")
    assert no["isError"] and "start 'sudo eacgm agent'" in no["content"][0]["text"], no
    with agent({("POST", "/freeze"): (404, "nothing is kept: start the agent with --freeze\n")}) \
            as (address, _asked):
        no = call(address, "freeze_trace")
        assert no["isError"] and "--freeze" in no["content"][0]["text"], no
        assert call(address, "list_jobs")["isError"], "an agent of another version"


@test
def lines_that_are_no_messages_have_an_error_each(_):
    deep = "[" * 100000
    said = talk("127.0.0.1:1", "nonsense", "[]", "1", '{"jsonrpc":"2.0","id":1}',
                '{"jsonrpc":"1.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":{},"method":"ping"}',
                request("no/such"), request("tools/call", name="rm"), request("tools/call"), deep,
                "x" * (3 << 20), request("ping", 99))
    codes = [s.get("error", {}).get("code") for s in said]
    assert codes == [-32700] + 5 * [-32600] + [-32601, -32602, -32602, -32700, -32600, None], codes
    assert said[-1]["id"] == 99


@test
def addresses_of_others_are_refused(_):
    for address in ("192.0.2.1:9477", "example.com:80", "127.0.0.1", "127.0.0.1:x"):
        said = eacgm("mcp", "--connect", address, status=2).stderr
        assert "--connect" in said and len(said.splitlines()) == 1, said


@test
def it_says_a_token_where_it_is_told_one(folder):
    path, tokens = folder / "token", []
    path.write_text("0123456789abcdef\n")
    with agent(tokens=tokens) as (address, _):
        message = json.dumps(request("tools/call", name="freeze_trace", arguments={})) + "\n"
        for options in ((), ("--token-file", str(path))):
            done = subprocess.run([EACGM, "mcp", "--connect", address, *options], input=message,
                                  capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0 and not done.stderr, done
    assert tokens == [None, "Bearer 0123456789abcdef"], tokens
    path.write_text("short\n")
    assert "is no token" in eacgm("mcp", "--token-file", path, status=1).stderr


if __name__ == "__main__":
    main()
