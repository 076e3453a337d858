/** Response types under the names used in the console. */
export type {
  CheckpointInfo,
  CheckpointPage,
  GraphValues,
  Me,
  NewState,
  PublishedAgent as Agent,
  ResolvedSystem as System,
  Scope,
  SessionHead as Session,
  StateUpdated,
  SystemHead as ListedSystem,
  Tool,
} from "@stellwerk/client";
