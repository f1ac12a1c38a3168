/** Makes one file of a service, of the format and in the folder that the arguments name. */
import { dramatis } from 'dramatis/esbuild'
import { build } from 'esbuild'

const [, , folder, format] = process.argv
await build({
  entryPoints: ['service.js'],
  bundle: true,
  platform: 'node',
  format,
  outfile: `${folder}/service.${format === 'esm' ? 'mjs' : 'cjs'}`,
  plugins: [dramatis()],
})
