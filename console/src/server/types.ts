/** Response types under the names used in the console. */
export type {
  Me,
  PublishedAgent as Agent,
  ResolvedSystem as System,
  Scope,
  SessionHead as Session,
  SystemHead as ListedSystem,
  Tool,
} from "@stellwerk/client";
