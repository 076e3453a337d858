"""HTTP below the routes: server, authentication, CORS, timeouts, problems, audit."""
