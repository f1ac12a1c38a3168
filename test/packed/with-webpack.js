/** Makes a bundle of a service and one of its agent, in the folder and with the settings that the arguments name. */
import webpack from 'webpack'

const [, , folder, settings] = process.argv
const { default: documented } = await import(settings)
const options = {
  ...documented,
  mode: 'production',
  entry: { service: './service.js', faulty: './faulty.ts' },
  output: { ...documented.output, path: folder },
}
webpack(options, (error, stats) => {
  if (!error && !stats.hasErrors()) return
  console.error(error ?? stats.toString())
  process.exitCode = 1
})
