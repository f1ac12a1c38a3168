/** A project on disk for a bundle to come from, and a thread for it to go to. */
import { cp } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import type t from 'tap'
import { type Loadable, loadable } from '../../src/runtime/threads/bundle-cache.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'

type Files = Parameters<typeof t.testdir>[0] & object
type Test = { testdir(files: Files): string }

export const WHAT = 'agents[0].module'
const repository = dirname(createRequire(import.meta.url).resolve('dramatis/package.json'))

/** A package with these files, so that its cache and its settings are its own. */
export function project(t: Test, files: Files): string {
  return t.testdir({ 'package.json': '{ "name": "project", "type": "module" }', 'tsconfig.json': '{}', ...files })
}

/** A package with the sources of test/fixtures/bundle. */
export async function projectOfFixtures(t: Test, files: Files = {}): Promise<string> {
  const folder = project(t, files)
  await cp(join(repository, 'test', 'fixtures', 'bundle'), folder, { recursive: true })
  return folder
}

export function load(...path: string[]): Promise<Loadable> {
  return loadable(pathToFileURL(join(...path)).href, WHAT)
}

/** The error, which must be one about the option that named the module. */
export async function refusal(loading: Promise<unknown>): Promise<ConfigurationError> {
  const error = await loading.then(
    () => new Error('nothing was refused'),
    (error: unknown) => error,
  )
  if (error instanceof ConfigurationError && error.details.path === WHAT) return error
  throw error
}

/** What a thread gets from the module's default export: called if it is a function; else the stack of what it threw. */
export async function inThread(href: string): Promise<unknown> {
  const worker = new Worker(ENTRY, { eval: true, workerData: href })
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the thread said nothing')))
  })
}

const ENTRY = `
  const { parentPort, workerData } = require('node:worker_threads')
  process.setSourceMapsEnabled(true)
  import(workerData)
    .then(({ default: found }) => (typeof found === 'function' ? found() : found))
    .then((value) => parentPort.postMessage(value), (error) => parentPort.postMessage(error.stack))
`
