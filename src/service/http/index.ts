/** `dramatis/http`: teams over HTTP. */
export { type HttpApi, httpApi } from './api.ts'
export { bearerToken } from './bearer-token.ts'
export type { Authorize, Caller, HttpApiOptions, HttpLimits, OnDisconnect, Right } from './options.ts'
export type { Problem, Task, TaskQuestion, TaskRequest, TaskSummary } from './schemas.ts'
