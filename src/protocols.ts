/** `dramatis/protocols`: what strategies are configured with, and what they send and take. */
export { inFlowMode } from './protocols/flow-mode.ts'
export * from './protocols/index.ts'
export { subTaskResultSchema, subTaskSchema } from './protocols/steps/schemas.ts'
