# For RunPod and any other machine with an NVIDIA GPU; torch brings its own CUDA libraries.
FROM python:3.11-slim-bookworm
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ffmpeg git && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.txt requirements.lock ./
RUN pip install --no-cache-dir -r requirements.txt -c requirements.lock
COPY . .
ENV PERSONAPLEX_CACHE=/workspace/personaplex HF_HOME=/workspace/huggingface GRADIO_ANALYTICS_ENABLED=False
EXPOSE 7860
CMD ["python", "app.py", "--host", "0.0.0.0", "--port", "7860", "--public"]
