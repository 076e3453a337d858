package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, server *httptest.Server, path string) (int, string) {
	t.Helper()
	answer, err := http.Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestAnswers(t *testing.T) {
	server := httptest.NewServer(newService())
	defer server.Close()
	for _, c := range []struct {
		path   string
		status int
		part   string
	}{
		{"/", http.StatusOK, name},
		{"/health", http.StatusOK, `{"status":"ok"}`},
		{"/metrics", http.StatusOK, `http_requests_total{path="/health",status="200"} 1`},
		{"/nowhere", http.StatusNotFound, "not found"},
	} {
		status, body := get(t, server, c.path)
		if status != c.status || !strings.Contains(body, c.part) {
			t.Errorf("GET %s: %d %s", c.path, status, body)
		}
	}
}
