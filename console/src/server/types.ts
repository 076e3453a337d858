/** What the server tells, in the words of these pages. */
export type {
  PublishedAgent as Agent,
  ResolvedSystem as System,
  SessionHead as Session,
  SystemHead as ListedSystem,
  Tool,
} from "@stellwerk/client";
