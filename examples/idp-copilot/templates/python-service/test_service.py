import json
import threading
import unittest
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import service

direct = build_opener(ProxyHandler({}))


class ServiceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = service.listening("127.0.0.1", 0)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def tearDown(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def get(self, path: str) -> str:
        with direct.open(f"http://127.0.0.1:{self.server.server_port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def test_it_says_who_it_is(self) -> None:
        self.assertEqual(json.loads(self.get("/"))["service"], service.NAME)

    def test_it_is_healthy(self) -> None:
        self.assertEqual(json.loads(self.get("/health")), {"status": "ok"})

    def test_requests_are_counted(self) -> None:
        self.get("/health")
        self.assertIn('http_requests_total{path="/health",status="200"}', self.get("/metrics"))

    def test_unknown_paths_are_not_found(self) -> None:
        with self.assertRaises(HTTPError) as raised:
            self.get("/nowhere")
        raised.exception.close()
        self.assertEqual(raised.exception.code, 404)


if __name__ == "__main__":
    unittest.main()
