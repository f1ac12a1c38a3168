/**
 * Compiles the code of a role to one script for a vm context. Its packages are bundled, so that nothing in it sees the
 * machine.
 */
import { readFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import type { Plugin } from 'esbuild'
import type { AgentHandlers } from '../../actors/definition/definition.ts'
import { ownFile, ownRequire } from '../../shared/environment.ts'
import { sourceOf } from '../threads/bundle-cache.ts'
import { CODE, cannotBundle, META_SCHEME, OPTIONS, placesOf, requireResolved, withMeta } from '../threads/bundler.ts'
import { aroundTurns } from './faults.ts'
import { outsideOf, Reach } from './reach.ts'
import type { SteppedClock } from './virtual-clock.ts'

/** Source of `dramatis` for agents. It is bundled in, and finds the runtime by a symbol. */
const threadApi = () => fileURLToPath(ownFile('thread-api.js'))

export interface TeamFile {
  href: string
  shown: string
}

/** Compiled code of a rehearsal. It is compiled once, so that a rehearsal plays one state of the code. */
export class Scripts {
  readonly #compiled = new Map<string, Promise<Script>>()

  /** `specifier` and `from` as in `loadable`; `option` names it in errors. */
  agent(specifier: string, from: string, option: string): Promise<Script> {
    return this.#once(`agent ${from} ${specifier}`, () => compiled(specifier, from, option, false))
  }

  /** Compiles a team file, like `agent`. The module `dramatis` in it is the host's. */
  teamFile({ href, shown }: TeamFile): Promise<Script> {
    return this.#once(`team ${href}`, () => compiled(href, '', `team file "${shown}"`, true))
  }

  #once(key: string, compile: () => Promise<Script>): Promise<Script> {
    const script = this.#compiled.get(key) ?? compile()
    this.#compiled.set(key, script)
    return script
  }
}

async function compiled(specifier: string, from: string, option: string, host: boolean): Promise<Script> {
  const entry = await sourceOf(specifier, option, from)
  const { build }: typeof import('esbuild') = ownRequire()('esbuild')
  const folder = dirname(entry)
  try {
    const { outputFiles } = await build({
      ...OPTIONS,
      sourcemap: false,
      format: 'cjs',
      supported: { 'dynamic-import': false }, // becomes a `require`, which the sandbox provides
      entryPoints: [entry],
      outfile: join(folder, 'bundle.cjs'), // never written
      absWorkingDir: folder,
      plugins: [sealed(host)],
    })
    const code = `(function (exports, require, module) {${outputFiles[0]?.text ?? ''}\n})`
    return new Script(code, { filename: entry })
  } catch (error) {
    throw cannotBundle(error, entry, option)
  }
}

/** Puts everything into the bundle except Node's own modules and the modules that the host provides. */
function sealed(host: boolean): Plugin {
  return {
    name: 'rehearsal',
    setup(build) {
      build.onResolve({ filter: new RegExp(`^${META_SCHEME}`) }, ({ path }) => {
        return { path: path.slice(META_SCHEME.length), namespace: 'dramatis-meta' }
      })
      build.onLoad({ filter: /.*/, namespace: 'dramatis-meta' }, ({ path }) => ({ contents: metaOf(path) }))
      build.onResolve({ filter: /^dramatis(?:\/|$)/ }, ({ path }) => {
        return host || path !== 'dramatis' ? { path, external: true } : { path: threadApi() }
      })
      build.onResolve({ filter: /.*/ }, (args) => {
        if (args.kind === 'require-resolve') return requireResolved(args)
        const { path } = args
        return isBuiltin(path) || path.endsWith('.node') ? { path, external: true } : undefined
      })
      build.onLoad({ filter: CODE, namespace: 'file' }, async ({ path }) => {
        return withMeta(path, (await readFile(path)).toString())
      })
    },
  }
}

function metaOf(path: string): string {
  return `const places = ${JSON.stringify(placesOf(path))}
export default { ...places, resolve: (specifier) => new URL(specifier, places.url).href }`
}

/** Result of a step, as JSON; undefined results have no `result`. */
export interface RecordedStep {
  result?: unknown
}

/** Store for the results of steps. It may be in another thread. */
export interface StepAnswers {
  knownStep(key: string): Promise<RecordedStep | null>
  /** Stores a result. Resolves to the stored one, which is the first if several were given. */
  keepStep(key: string, step: RecordedStep): Promise<RecordedStep>
}

/**
 * Returns handlers whose steps are recorded. Key of a step: the agent, the step's name, its number among steps of that
 * name in the turn, and the message's content and data.
 */
export function recordingSteps(
  agent: string,
  handlers: AgentHandlers,
  clock: SteppedClock,
  answers: StepAnswers,
): AgentHandlers {
  return aroundTurns(handlers, ({ content, structuredData }, context, work) => {
    const real = context.step.bind(context)
    const counts = new Map<string, number>()
    context.step = (name, run, options) => {
      const nth = (counts.get(name) ?? 0) + 1
      counts.set(name, nth)
      const key = JSON.stringify([agent, name, nth, content, structuredData])
      return real(name, () => recordedStep(key, name, run, clock, answers), options)
    }
    return work()
  })
}

async function recordedStep<T>(
  key: string,
  name: string,
  run: () => Promise<T> | T,
  clock: SteppedClock,
  answers: StepAnswers,
): Promise<T> {
  const known = await outsideOf(clock)(answers.knownStep(key))
  if (known) return known.result as T
  const reach = new Reach(clock, name)
  try {
    const result = await reach.run(run)
    if (!reach.begun) return result
    const text = JSON.stringify(result)
    const kept = await answers.keepStep(key, text === undefined ? {} : { result: JSON.parse(text) })
    return kept.result as T
  } finally {
    reach.end()
  }
}
