/** What a protocol is: a script with a name, and its configuration. The runtime knows no more of any strategy. */
import type { OrchestratorContext } from './context.ts'
import type { Schema } from './tool.ts'

export type ScriptResult = string | { content: string; structuredData?: unknown }

/** A protocol as the runtime takes it. */
export type Protocol =
  | { name: string; run(orchestrator: OrchestratorContext, query: string): Promise<ScriptResult> }
  | { name: string; module: URL | string; config?: object }

export type CustomConfig<N extends string = string> = { strategy: 'custom' } & (
  | { name?: string; run(orchestrator: OrchestratorContext<N>, query: string): Promise<ScriptResult> }
  | { module: URL | string; config?: object }
)

export interface ProtocolDefinition<Config extends object> {
  name: string
  config?: Schema<unknown, Config>
  run(orchestrator: OrchestratorContext, query: string, config: Config): Promise<string>
}
