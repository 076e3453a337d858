/** What the server tells, in the words of these pages. */
export type {
  Me,
  PublishedAgent as Agent,
  ResolvedSystem as System,
  Scope,
  SessionHead as Session,
  SystemHead as ListedSystem,
  Tool,
} from "@stellwerk/client";
