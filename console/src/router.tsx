import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { placeFrom, searchOf } from "./pages/events/filter";
import { chunk } from "./server/lazyChunks";
import { Broken, NotFound } from "./shell/ErrorPages";
import { Shell } from "./shell/Shell";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Broken });
const at = <P extends string>(path: P, component: ReturnType<typeof lazyRouteComponent>) =>
  createRoute({ getParentRoute: () => root, path, component });

/** Each page is a separate chunk, loaded on navigation. */
const chat = chunk(() => import("./pages/chat/ChatPage"));
const systems = chunk(() => import("./pages/systems/SystemsPage"));
const system = chunk(() => import("./pages/systems/SystemPage"));
const events = chunk(() => import("./pages/events/EventsPage"));
const reading = chunk(() => import("./pages/events/SessionEventsPage"));
const editing = chunk(() => import("./pages/systems/NewSystemPage"));
const tools = chunk(() => import("./pages/tools/ToolsPage"));
const jobs = chunk(() => import("./pages/jobs/JobsPage"));
const workflows = chunk(() => import("./pages/workflows/WorkflowsPage"));
const starting = chunk(() => import("./pages/workflows/NewWorkflowPage"));
const watching = chunk(() => import("./pages/workflows/WorkflowPage"));

/** URL parameters that name a position in the log. */
const conversation = createRoute({
  getParentRoute: () => root,
  path: "/chat/$sid",
  component: lazyRouteComponent(chat, "SessionPage"),
  validateSearch: ({ at }: Record<string, unknown>): { at?: number | undefined } => ({ at: placeFrom(at) }),
});
const log = createRoute({
  getParentRoute: () => root,
  path: "/events/$sid",
  component: lazyRouteComponent(reading, "SessionEventsPage"),
  validateSearch: searchOf,
});

const routeTree = root.addChildren([
  at("/", lazyRouteComponent(chat, "ChatPage")),
  conversation,
  at("/workflows", lazyRouteComponent(workflows, "WorkflowsPage")),
  at("/workflows/new", lazyRouteComponent(starting, "NewWorkflowPage")),
  at("/workflows/$id", lazyRouteComponent(watching, "WorkflowPage")),
  at("/systems", lazyRouteComponent(systems, "SystemsPage")),
  at("/systems/$id", lazyRouteComponent(system, "SystemPage")),
  at("/register", lazyRouteComponent(editing, "NewSystemPage")),
  at("/tools", lazyRouteComponent(tools, "ToolsPage")),
  at("/jobs", lazyRouteComponent(jobs, "JobsPage")),
  at("/events", lazyRouteComponent(events, "EventsPage")),
  log,
]);

export const router = createRouter({
  routeTree,
  history: createHashHistory(), // the server may be mounted anywhere and serves a single page
  defaultPreload: "intent",
  defaultNotFoundComponent: NotFound,
  defaultErrorComponent: Broken,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
