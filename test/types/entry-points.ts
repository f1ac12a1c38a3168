/** The declarations of all entry points hold in programs that check those of libraries. */
import * as main from 'dramatis'
import * as aiSdk from 'dramatis/ai-sdk'
import * as esbuild from 'dramatis/esbuild'
import * as evals from 'dramatis/evals'
import * as http from 'dramatis/http'
import * as mcp from 'dramatis/mcp'
import * as models from 'dramatis/models'
import * as opentelemetry from 'dramatis/opentelemetry'
import * as protocols from 'dramatis/protocols'
import * as telemetry from 'dramatis/telemetry'
import * as testing from 'dramatis/testing'
import * as tools from 'dramatis/tools'

export const all = {
  main,
  aiSdk,
  esbuild,
  evals,
  http,
  mcp,
  models,
  opentelemetry,
  protocols,
  telemetry,
  testing,
  tools,
}
