"""A TCP proxy in front of a service that the server depends on, which can delay, stall or cut all bytes."""

import socket
import threading
import time

from client import HOST


class Proxy:
    """Listens on `port`, connects to `to`. A context manager."""

    def __init__(self, to):
        self.to, self.delay, self.stalled = to, 0.0, False
        self.refusing, self.lock, self.pairs = False, threading.Lock(), set()
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                if self.refusing:
                    near.close()
                    continue
                far = socket.create_connection((HOST, self.to))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            with self.lock:
                self.pairs |= {near, far}
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, target), daemon=True).start()

    def pump(self, source, target):
        try:
            while part := source.recv(65536):
                time.sleep(self.delay)
                while self.stalled:
                    time.sleep(0.005)
                target.sendall(part)
        except OSError:
            pass
        self.close(source, target)

    def close(self, *socks):
        with self.lock:
            self.pairs -= set(socks)
        for sock in socks:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def cut(self):
        """Every connection ends now; new ones are accepted and closed while `refusing`."""
        self.close(*tuple(self.pairs))
