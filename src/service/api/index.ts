export type { ModelPrice } from '../../runtime/settings/money.ts'
export type {
  A2aOptions,
  Authorize,
  Caller,
  HttpApiOptions,
  HttpLimits,
  McpOAuth,
  McpOptions,
  OnDisconnect,
  Right,
} from '../http/options.ts'
export type { Cost, Problem, Task, TaskQuestion, TaskRequest, TaskSummary } from '../http/schemas.ts'
/** `dramatis/http`: teams over HTTP. */
export { type HttpApi, httpApi } from './api.ts'
export { bearerToken } from './doors.ts'
