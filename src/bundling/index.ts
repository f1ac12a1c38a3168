/** Plugin of esbuild that makes one file of a service, with its agents and what their threads run beside it. */
import type { Plugin } from 'esbuild'
import { Bundling } from './bundling.ts'

/**
 * Bundles dramatis into a service. Each module that a source names as `new URL('./critic.ts', import.meta.url)` is
 * bundled into a file of its own beside the bundle, and the expression becomes the URL of that file. What the threads
 * of agents run is written into a folder `dramatis` there. The result needs no `node_modules`.
 *
 * With dramatis among `external` (or `packages: 'external'`) it stays a package; the agents are emitted all the same.
 *
 * @throws ConfigurationError for options of esbuild that cannot work: the build fails with it.
 *
 * @example
 * await build({
 *   entryPoints: ['server.ts'],
 *   bundle: true,
 *   platform: 'node',
 *   format: 'esm',
 *   outfile: 'out/server.mjs',
 *   plugins: [dramatis()],
 * })
 */
export function dramatis(): Plugin {
  const plugin: Plugin = { name: 'dramatis', setup: (build) => new Bundling(build, plugin).host() }
  return plugin
}
