/** Loads the code of an agent into a thread, then runs the agent's loop. */
import * as errors from '../../errors.ts'
import { queueMicrotask } from '../../timers.ts'
import type { Assignment, CodeAssignment, Started, ToolCode } from '../definition/assignment.ts'
import { type AgentHandlers, handlersOf } from '../definition/definition.ts'
import { type Exports, exportsOf } from '../definition/exports.ts'
import { toolIn } from '../tools/tool-module.ts'
import { type LoadedTool, Toolbox } from '../tools/toolbox.ts'
import type { ThreadPort } from '../transport/link.ts'
import { modelAgent } from '../turn/model-agent.ts'
import { moduleScript, ScriptContext } from '../turn/orchestrator.ts'
import { AgentLoop } from './agent-loop.ts'
import { startFailure } from './starting.ts'

/** Provided by thread-boot.cjs. */
declare const importModule: Imports

type Imports = (href: string) => Promise<Exports>

/** Code of the agent, as its modules export it. */
interface Loaded {
  handlers: AgentHandlers
  toolbox: Toolbox
}

export class Resident {
  readonly #port: ThreadPort
  readonly #imports: Imports
  #loaded: Promise<Loaded> | undefined
  #loop: AgentLoop | undefined

  constructor(port: ThreadPort, imports: Imports = importModule) {
    this.#port = port
    this.#imports = imports
  }

  load(assignment: CodeAssignment): Promise<Started> {
    return replyOf(assignment, async () => {
      await this.#code(assignment)
      return { ok: true, state: undefined }
    })
  }

  start(assignment: Assignment): Promise<Started> {
    return replyOf(assignment, () => this.#start(assignment))
  }

  get isIdle(): boolean {
    return this.#loop?.isIdle === true
  }

  async stop(): Promise<void> {
    await this.#loop?.stop()
  }

  /** Ends the agent at once: what it had published stays, and it writes nothing more. */
  leave(): void {
    this.#loop?.link.close()
  }

  async #start(assignment: Assignment): Promise<Started> {
    const script = 'protocol' in assignment.code
    const { handlers, toolbox } = await this.#code(assignment)
    const loop = new AgentLoop(
      assignment,
      handlers,
      toolbox,
      this.#port,
      script ? (turn) => new ScriptContext(turn, () => turn.start.view.roster) : undefined,
    )
    this.#loop = loop
    const state = await loop.start(assignment.state)
    queueMicrotask(() => loop.pump())
    return { ok: true, state, tools: toolbox.names, harmful: toolbox.harmful }
  }

  #code(assignment: CodeAssignment): Promise<Loaded> {
    this.#loaded ??= loadAll(assignment, this.#imports)
    return this.#loaded
  }
}

/** Does a part of the start. An error becomes a reply. */
async function replyOf({ role }: CodeAssignment, part: () => Promise<Started>): Promise<Started> {
  try {
    return await part()
  } catch (error) {
    if (error instanceof ImportFailure)
      return { ok: false, importing: error.whose, error: errors.errorData(error.what) }
    return { ok: false, error: errors.errorData(startFailure(role.name, error)) }
  }
}

async function loadAll(assignment: CodeAssignment, imports: Imports): Promise<Loaded> {
  Object.assign(process.env, assignment.env)
  const { tools } = assignment
  if (tools.modules.some(({ bundled }) => bundled)) process.setSourceMapsEnabled(true)
  const handlers = await handlersFor(assignment, imports)
  const loaded: LoadedTool[] = []
  // Side by side, a CommonJS tool could require what another is importing, and Node refuses that.
  for (const code of tools.modules) loaded.push(await loadTool(code, imports))
  return { handlers, toolbox: new Toolbox(tools, loaded) }
}

async function handlersFor(
  { code, role, option, instances }: CodeAssignment,
  imports: Imports,
): Promise<AgentHandlers> {
  if ('model' in code) return modelAgent(instances === 1)
  if (code.bundled) process.setSourceMapsEnabled(true)
  const { default: exported } = await exportsIn('module' in code ? code.module : code.protocol, 'agent', imports)
  return 'protocol' in code
    ? moduleScript(exported, code.shown, code.config)
    : agentOf(exported, code.shown, role.name, option)
}

/** Wraps an error thrown by the import of a module, with the agent or tool whose module it is. */
class ImportFailure {
  readonly what: errors.ConfigurationError
  readonly whose: 'agent' | ToolCode
  constructor(thrown: unknown, whose: 'agent' | ToolCode) {
    this.whose = whose
    this.what = new errors.ConfigurationError(errors.describe(thrown), {}, thrown)
  }
}

async function exportsIn(module: string, whose: 'agent' | ToolCode, imports: Imports): Promise<Exports> {
  try {
    return exportsOf(await imports(module))
  } catch (error) {
    throw new ImportFailure(error, whose)
  }
}

async function loadTool(code: ToolCode, imports: Imports): Promise<LoadedTool> {
  return { tool: toolIn(await exportsIn(code.module, code, imports), code), option: code.option }
}

function agentOf(exported: unknown, shown: string, agent: string, option: string): AgentHandlers {
  const handlers = handlersOf(exported)
  if (handlers) return handlers
  const path = `${option}.module`
  throw new errors.ConfigurationError(
    `${path}: the module of "${agent}" has no agent as its default export: ${shown}. Write: export default defineAgent({ ... }).`,
    { path, agent, module: shown },
  )
}
