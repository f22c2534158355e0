//! Tests with a server that asks back: pages, roots, sampling, prompts and resources.

use super::*;

/// A server made with the library: it asks back, and has pages, prompts and resources.
#[derive(Clone)]
struct Asking;

impl ServerHandler for Asking {
    fn get_info(&self) -> m::ServerConfig {
        m::ServerConfig::new(
            m::ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build(),
        )
    }

    async fn list_tools(
        &self,
        request: Option<m::PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<m::ListToolsResult, m::ErrorData> {
        let page = request.and_then(|request| request.cursor);
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        let name = if page.is_none() { "echo" } else { "second.page" };
        let mut result = m::ListToolsResult::default();
        result.tools = vec![m::Tool::new(name, "About", schema)];
        result.next_cursor = page.is_none().then(|| "2".to_owned());
        Ok(result)
    }

    #[expect(deprecated, reason = "servers of today ask for roots and for sampling")]
    async fn call_tool(
        &self,
        _request: m::CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<m::CallToolResponse, m::ErrorData> {
        let roots = context.peer.list_roots().await.unwrap();
        let message = m::SamplingMessage::user_text("lend me your model");
        let sampled = context.peer.create_message(m::CreateMessageRequestParams::new(vec![message], 10)).await;
        let said = format!("{} / {}", roots.roots[0].uri, sampled.unwrap_err());
        Ok(m::CallToolResult::success(vec![m::ContentBlock::text(said)]).into())
    }

    async fn list_prompts(
        &self,
        _request: Option<m::PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<m::ListPromptsResult, m::ErrorData> {
        let mut result = m::ListPromptsResult::default();
        let argument = m::PromptArgument::new("city").with_required(true);
        result.prompts = vec![m::Prompt::new("weather", Some("About"), Some(vec![argument]))];
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: m::GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<m::GetPromptResponse, m::ErrorData> {
        let city = request.arguments.unwrap()["city"].as_str().unwrap().to_owned();
        let message = m::PromptMessage::new_text(m::Role::User, format!("Weather in {city}"));
        Ok(m::GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(
        &self,
        _request: Option<m::PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<m::ListResourcesResult, m::ErrorData> {
        let mut result = m::ListResourcesResult::default();
        result.resources = vec![m::Resource::new("memo://a", "A")];
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: m::ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<m::ReadResourceResponse, m::ErrorData> {
        Ok(m::ReadResourceResult::new(vec![m::ResourceContents::text("memo", request.uri)]).into())
    }
}

async fn asking() -> Servers {
    start(
        |pipes| async move {
            if let Ok(service) = Asking.serve((pipes.read, pipes.write)).await {
                let _ended = service.waiting().await;
            }
        },
        json!({}),
    )
    .await
}

#[tokio::test]
async fn pages_are_joined_roots_given_and_sampling_refused() {
    let servers = asking().await;
    ready(&servers);
    assert_eq!(servers.states()[0].has, (2, 1, 1));
    let said = call(&servers).await.unwrap();
    assert!(said.starts_with("file:///project / ") && said.contains("sampling is not supported"), "{said}");
}

#[tokio::test]
async fn prompts_and_resources_are_read() {
    let servers = asking().await;
    assert_eq!(servers.expand("/weather New York").await.unwrap().unwrap(), "Weather in New York");
    assert_eq!(servers.expand("/s__weather --city=Rome").await.unwrap().unwrap(), "Weather in Rome");
    assert!(servers.expand("/weather").await.unwrap().unwrap_err().contains("needs --city"));
    assert!(servers.expand("/other").await.is_none());
    let (server, uri, _) = servers.resource("s:memo://a").unwrap();
    assert_eq!(content::resource(&server.read(&uri).await.unwrap(), false), [Part::Text("memo".into())]);
    assert!(servers.resource("t:memo://a").is_none() && servers.resource("src/a.rs").is_none());
}

#[tokio::test]
async fn a_tool_that_the_policy_denies_is_not_offered_and_aliases_lead_to_the_rest() {
    let servers = asking().await;
    let mut toolbox = Toolbox::default();
    let warnings =
        servers.register(&mut toolbox, &|access| !matches!(access, Access::Mcp { tool, .. } if tool == "echo"));
    assert_eq!(warnings, [] as [&str; 0]);
    assert_eq!(toolbox.names().collect::<Vec<_>>(), ["mcp_resource", "second_page"]);
    for called in ["second_page", "second.page", "mcp__s__second.page", "mcp__s__second_page"] {
        assert_eq!(toolbox.resolve(called).map(Entry::name), Some("second_page"), "{called}");
    }
    let prepared = toolbox.parse("mcp__s__second.page", Map::new()).unwrap();
    assert_eq!(
        prepared.call.accesses(),
        [Access::Mcp { server: "s".into(), tool: "second.page".into(), arguments: json!({}), pin: Pin::Unpinned }]
    );
}
