/**
 * States that a durable log can end with a session: 'private' (`state`), 'shared' (`agent_shared`, `team_shared`) and
 * 'board' (a blackboard of the whole team). Source: document 002, 2.4.1.
 */
export type EndingState = 'private' | 'shared' | 'board'
export const ENDING_STATES: readonly EndingState[] = ['private', 'shared', 'board']
