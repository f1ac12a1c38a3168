// Comlink ships this adapter without a declaration that its exports let TypeScript find.
declare module 'comlink/dist/esm/node-adapter.mjs' {
  const nodeEndpoint: (port: import('node:worker_threads').MessagePort) => import('comlink').Endpoint
  export default nodeEndpoint
}
