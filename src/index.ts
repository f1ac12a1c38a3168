/**
 * A map of the rooms, then the public names.
 *
 *   errors, clock   one class per failure; time and randomness as an interface
 *   mailbox/        messages and how they cross threads
 *   blackboard/     shared knowledge
 *   actors/         what defines an agent, and all that runs inside its thread
 *   runtime/        the host side: supervisor, runs, log
 *   protocols/      one orchestration strategy per file
 *   service/        how people reach a team: the command line
 */
export * from './errors.ts'
export type { Clock } from './clock.ts'
export type { AgentMessage, MessageInput, MessageType } from './mailbox/message.ts'
export { type AgentDefinition, agentRef, defineAgent, type Reply } from './actors/definition.ts'
