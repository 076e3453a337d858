// {{name}}: an HTTP service that needs nothing but Go's standard library.
//
//	go run . --port 8080
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const name = "{{name}}"

// meter counts what was answered, by path and status, and how long it took.
type meter struct {
	mu       sync.Mutex
	requests map[string]int
	seconds  float64
	answered int
}

func (m *meter) count(path string, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[fmt.Sprintf("http_requests_total{path=%q,status=\"%d\"}", path, status)]++
	m.seconds += took.Seconds()
	m.answered++
}

func (m *meter) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := make([]string, 0, len(m.requests))
	for key, n := range m.requests {
		lines = append(lines, fmt.Sprintf("%s %d\n", key, n))
	}
	sort.Strings(lines)
	return "# HELP http_requests_total Requests that were answered.\n" +
		"# TYPE http_requests_total counter\n" +
		strings.Join(lines, "") +
		"# HELP http_request_duration_seconds Time that answering took.\n" +
		"# TYPE http_request_duration_seconds summary\n" +
		fmt.Sprintf("http_request_duration_seconds_sum %.6f\n", m.seconds) +
		fmt.Sprintf("http_request_duration_seconds_count %d\n", m.answered)
}

// service is the routes and what they count.
type service struct {
	meter  meter
	routes map[string]func() (kind, text string)
}

func newService() *service {
	s := &service{meter: meter{requests: map[string]int{}}}
	s.routes = map[string]func() (kind, text string){
		"/":        index,
		"/health":  health,
		"/metrics": s.metrics,
	}
	return s
}

func index() (kind, text string) {
	return asJSON(map[string]string{"service": name, "message": "Hello from " + name})
}

func health() (kind, text string) {
	return asJSON(map[string]string{"status": "ok"})
}

func notFound() (kind, text string) {
	return asJSON(map[string]string{"error": "not found"})
}

func (s *service) metrics() (kind, text string) {
	return "text/plain; version=0.0.4; charset=utf-8", s.meter.text()
}

func asJSON(value map[string]string) (kind, text string) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // a map of strings can always be encoded
	}
	return "application/json", string(encoded)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin, path, status := time.Now(), r.URL.Path, http.StatusOK
	route, found := s.routes[path]
	if !found || r.Method != http.MethodGet {
		route, path, status = notFound, "other", http.StatusNotFound
	}
	kind, text := route()
	// Counted before it is sent: whoever has his answer finds it in the metrics.
	s.meter.count(path, status, time.Since(begin))
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if _, err := w.Write([]byte(text)); err != nil {
		log.Print(err)
	}
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on; 0 takes a free one")
	flag.Parse()
	listener, err := net.Listen("tcp", net.JoinHostPort(*host, strconv.Itoa(*port)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s:%d\n", *host, listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, newService()))
}
