/** Makes a bundle of a service and one of its agent, with the settings of the documentation. */
import webpack from 'webpack'

const options = {
  mode: 'production',
  target: 'node20',
  entry: { service: './service.js', faulty: './faulty.ts' },
  output: { path: process.argv[2], filename: '[name].mjs', module: true, library: { type: 'module' } },
  experiments: { outputModule: true },
  externals: [/^dramatis(\/|$)/],
  externalsType: 'module',
  module: {
    rules: [{ test: /\.ts$/, loader: 'esbuild-loader' }],
    parser: { javascript: { url: false, importMeta: false } },
  },
}
webpack(options, (error, stats) => {
  if (!error && !stats.hasErrors()) return
  console.error(error ?? stats.toString())
  process.exitCode = 1
})
