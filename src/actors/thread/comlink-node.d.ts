// Comlink ships this adapter, but its package exports hide the adapter's declaration from TypeScript.
declare module 'comlink/dist/esm/node-adapter.mjs' {
  const nodeEndpoint: (port: import('node:worker_threads').MessagePort) => import('comlink').Endpoint
  export default nodeEndpoint
}
