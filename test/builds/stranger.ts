/** The package as its user has it: installed in a folder of its own, whose files are compiled and run there. */
import { spawnSync } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { Rehearser } from '../../src/rehearsal.ts'
import { definitionFrom, loadTeamFile } from '../../src/service/shared/load-team-file.ts'

type Files = Parameters<Test['testdir']>[0] & object

const repository = dirname(createRequire(import.meta.url).resolve('dramatis/package.json'))
const PACKAGES = ['zod', '@types', 'esbuild']

/** A folder with these files, in which the package and what its users have beside it is installed. */
export function stranger(t: Test, files: Files, type: 'commonjs' | 'module' = 'module'): string {
  const folder = t.testdir({ 'package.json': JSON.stringify({ name: 'stranger', type }), node_modules: {}, ...files })
  symlinkSync(repository, join(folder, 'node_modules', 'dramatis'), 'junction')
  for (const name of PACKAGES)
    symlinkSync(join(repository, 'node_modules', name), join(folder, 'node_modules', name), 'junction')
  return folder
}

/** Compiles all TypeScript of a folder beside its sources, strictly. Throws with what is wrong in it. */
export function compiled(folder: string, options: object): void {
  const compilerOptions = { target: 'es2022', strict: true, types: ['node'], skipLibCheck: true, ...options }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
  run(join(repository, 'node_modules/typescript/bin/tsc'), '-p', folder)
}

/** What a Node program prints on stdout. Throws with all that it printed if it fails. */
export function run(program: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program}: exit code ${status}\n${stdout}${stderr}`)
  return stdout
}

/** What the command line does with a team file, for the query "World": a run, and a rehearsal of one seed. */
export async function plays(t: Test, path: string, answer: string): Promise<void> {
  const { href } = pathToFileURL(path)
  const team = createTeam(await loadTeamFile(path, '/'))
  t.equal((await team.execute('World')).finalOutput, answer)
  await team.close()
  const check = (exported: unknown) => definitionFrom(exported, path, href)
  const part = { query: 'World', faults: [], traced: false }
  t.match(await new Rehearser().playFile(1, { href, shown: path }, check, part), { kind: 'done' })
}
