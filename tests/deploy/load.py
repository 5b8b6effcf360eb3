#!/usr/bin/env python3
"""Streaming load that loses nothing: sends requests to URL from many workers until SIGTERM, then lets running ones end
and prints the result. Exit status 1 if a request was refused, cut, or answered otherwise than the same request was
before: the same seed has the same bytes from every replica.

    tests/deploy/load.py URL [WORKERS]"""

import http.client
import json
import signal
import sys
import threading
import time
import urllib.parse

SEEDS = 16
TIMEOUT = 120.0
PROMPT = "海上明月海上明月，春江花月春江花月"


class Refused(AssertionError):
    """Nothing was begun."""


class Load:
    def __init__(self, url, workers):
        self.address = urllib.parse.urlsplit(url)
        self.stop = threading.Event()
        self.leaving = threading.Event()
        self.lock = threading.Lock()
        self.known = {}  # request: its first answer
        self.answered = 0
        self.faults = []
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(workers)]

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()  # check-tests: they work until SIGTERM

    def work(self, number):
        count = number
        while not self.stop.is_set():
            ask = (self.pictures, self.lines, self.lines, self.lines)[number % 4]
            key = ask.__name__, count % SEEDS
            try:
                self.compare(key, ask(count % SEEDS))
            except Refused as error:
                if self.leaving.is_set():
                    return
                self.fault(key, error)
            except (OSError, http.client.HTTPException, ValueError, AssertionError) as error:
                self.fault(key, error)
            count += 1

    def fault(self, key, error):
        at = time.strftime("%H:%M:%S", time.gmtime())
        with self.lock:
            self.faults.append(f"{at} {key}: {error!r}")

    def compare(self, key, answer):
        with self.lock:
            self.answered += 1
            assert self.known.setdefault(key, answer) == answer, "another answer than before"

    def events(self, path, body):
        """The data of a stream's events."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port,
                                                timeout=TIMEOUT)
        try:
            reply = self.begin(connection, path, body)
            return [line[6:].strip() for line in reply if line.startswith(b"data: ")]
        finally:
            connection.close()

    @staticmethod
    def begin(connection, path, body):
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}).encode(),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Refused(repr(error)) from error
        if reply.status != 200:
            raise Refused(f"status {reply.status}: {reply.read(500)!r}")
        return reply

    def lines(self, seed):
        texts = {}
        *events, last = self.events("/v1/completions", {"model": "couplet", "prompt": PROMPT, "n": 8,
                                                        "seed": seed})
        assert last == b"[DONE]", f"cut after {len(events)} events: {last!r}"
        for event in map(json.loads, events):
            assert "error" not in event, event
            for choice in event["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        assert len(texts) == 8 and all(len(t) == len(PROMPT) for t in texts.values()), texts
        return texts

    def pictures(self, seed):
        events = [json.loads(event) for event in self.events(
            "/v1/images/generations", {"model": "mnist", "n": 2, "seed": seed})]
        ends = [e for e in events if e["type"] == "image_generation.completed"]
        assert len(ends) == 2, f"{len(ends)} of 2 pictures, {len(events)} events: {events[-1:]}"
        return sorted(e["b64_json"] for e in ends)


def main():
    load = Load(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 16)
    signal.signal(signal.SIGTERM, lambda *_: load.stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: load.leaving.set())
    load.run()
    print(f"{load.answered} streams, {len(load.faults)} lost")
    for fault in load.faults[:10]:
        print(fault)
    return 1 if load.faults or load.answered < len(load.known) + SEEDS else 0


if __name__ == "__main__":
    sys.exit(main())
