/** Makes one file of a service, in the folder that the first argument names. */
import { dramatis } from 'dramatis/esbuild'
import { build } from 'esbuild'

await build({
  entryPoints: ['service.js'],
  bundle: true,
  platform: 'node',
  format: 'esm',
  outfile: `${process.argv[2]}/service.mjs`,
  plugins: [dramatis()],
})
